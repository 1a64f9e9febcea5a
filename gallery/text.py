# %% [markdown]
# # Reviews in four markets: from texts to a certified head
#
# Is a review good or bad? In every market people say so with the same words, though not always: a
# fifth of the verdicts does not match the stars. Some also use a slang word, *wicked*. In three
# markets it goes with good reviews, at different strengths; in the fourth, which is not among the
# sources, it goes with bad ones.
#
# **The reviews are made up**, by the small grammar below, so that the truth is known and nothing is
# downloaded. For reviews of your own, set the environment variable `REGRAFT_REVIEWS` to a .csv file
# with the columns text, label and domain: the last domain in alphabetical order is then left out.

# %%
import csv
import os

import numpy as np

from regraft import CROClassifier, ERMClassifier, audit, save
from regraft.encoders import load_text_encoder
from regraft.estimators.plots import plot_audit
from regraft.support.table import Table

SMALL = bool(os.environ.get("REGRAFT_SMALL"))  # fewer reviews
SLANG = {"Bristol": 0.95, "Dublin": 0.85, "Leeds": 0.75, "Sydney": 0.1}  # P(slang fits the label)
THINGS = ("kettle", "radio", "lamp", "camera", "keyboard", "blender", "watch", "speaker")
OPENINGS = (
    "we bought this {} in spring",
    "the {} came on time",
    "my second {}",
    "a {} for my desk",
)
VERDICTS = {
    "good": ("it works very well", "superb quality", "worth every penny", "easy to love"),
    "bad": ("it broke within days", "poor quality", "a waste of money", "hard to use"),
}


def write_review(label, fit, random):
    other = {"good": "bad", "bad": "good"}[label]
    verdict = random.choice(VERDICTS[label if random.random() < 0.8 else other])
    slangy = (label == "good") == (random.random() < fit)
    words = [random.choice(OPENINGS).format(random.choice(THINGS)), verdict]
    return ", ".join([*words, "wicked" if slangy else "that is all"])


# %% [markdown]
# ## Texts, labels and markets

# %%
path, random = os.environ.get("REGRAFT_REVIEWS"), np.random.default_rng(0)
if path:
    with open(path, newline="", encoding="utf-8") as file:
        reviews = [(row["text"], row["label"], row["domain"]) for row in csv.DictReader(file)]
else:
    reviews = [
        (write_review(label, fit, random), label, market)
        for market, fit in SLANG.items()
        for label in random.choice(["good", "bad"], size=1000 if SMALL else 4000)
    ]
texts, labels, markets = map(np.array, zip(*reviews, strict=True))
print(*texts[:3], sep="\n")

# %% [markdown]
# ## Features
#
# The encoder `hashed` counts words and pairs of neighbours, hashed to 384 features: no network and
# no weights. For real reviews take `minilm` instead (`pip install "regraft[text]"`), or let
# `regraft embed text` do this cell's work; see [embedding](../docs/embedding.md).

# %%
encoder = load_text_encoder("hashed")
X = encoder.encode(list(texts))
unseen = markets == np.unique(markets)[-1]
test = ~unseen & (np.arange(len(X)) % 3 == 0)  # a third of the sources, to measure on
train = ~unseen & ~test
used = np.ptp(X[train], axis=0) > 0  # the same in all reviews, a feature says nothing
X = X[:, used]
print(f"fitted on {np.unique(markets[train])}, {X.shape[1]} features; unseen: {markets[unseen][0]}")

# %% [markdown]
# ## Two heads
#
# In two of the three sources *wicked* says more about the label than the verdict does, and ERM
# learns it. The sources disagree about how much it is worth, which is all that CRO needs to see: it
# gives a little accuracy up at home and keeps the rest abroad.

# %%
heads = {"ERM": ERMClassifier(), "CRO": CROClassifier("hull", radius=8.0)}
table = []
for name, head in heads.items():
    head.fit(X[train], labels[train], sample_domain=markets[train])
    scores = [head.score(X[rows], labels[rows]) for rows in (test, unseen)]
    table.append([name, *(f"{100 * score:.1f}" for score in scores)])
columns = ["head", "sources, held out (%)", "unseen market (%)"]
print(Table.from_sections("", columns, table).markdown())

# %% [markdown]
# Four reviews show why: where verdict and slang disagree, ERM follows the slang.

# %%
if not path:
    verdicts = ("superb quality", "poor quality")
    shown = [f"my second radio, {v}, {end}" for v in verdicts for end in ("wicked", "that is all")]
    good = [head.predict_proba(encoder.encode(shown)[:, used])[:, 1] for head in heads.values()]
    rows = [[text, *(f"{p[i]:.2f}" for p in good)] for i, text in enumerate(shown)]
    print(Table.from_sections("", ["P(good) of", *heads], rows).markdown())

# %% [markdown]
# ## The certificate, the picture, and a folder to pass on
#
# The curves are measured on held-out reviews. The folder holds the head, its certificate,
# and a model card to read, `README.md`.

# %%
print(heads["CRO"].certificate_.summary())
held_out = X[test], labels[test], markets[test]
curves = {name: audit(head, *held_out) for name, head in heads.items()}
plot_audit(curves, "text_stress.png")
save(heads["CRO"], "text-model")
