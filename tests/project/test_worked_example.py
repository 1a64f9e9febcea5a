"""Every number of docs/worked-example.md, computed from the numbers that the page gives."""

import math
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from torch import Tensor

from regraft.core.closure import directed_hausdorff
from regraft.core.evidence import Evidence, HeldOutRows, measure
from regraft.core.game import GameOutcome, play
from regraft.core.group_targets import GroupAdversary, GroupTargets
from regraft.core.learner import Learner
from regraft.core.newton import losses
from regraft.core.transplant import Transplant, transplant_bases
from tests.helpers.paths import ROOT

PAGE = " ".join((ROOT / "docs" / "worked-example.md").read_text(encoding="utf-8").split())

# What is given. Index 0 is an appointment, 1 an emergency; diseases are P(y = 1 | f, u) as [f][u].
MARKER = torch.tensor([0.20, 0.80], dtype=torch.float64)
DISEASE = torch.tensor([[0.05, 0.60], [0.40, 0.95]], dtype=torch.float64)
SHARES = {"A": 0.90, "B": 0.70}
POOLED = 0.80
PICTURES = [(0, 0), (0, 1), (1, 0), (1, 1)]  # (f, m)


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def emergency(share: float, m: int) -> float:
    """P(u = 1 | m) by Bayes' rule."""
    seen = MARKER if m else 1 - MARKER
    return float(share * seen[1] / (share * seen[1] + (1 - share) * seen[0]))


def disease(share: float, f: int, m: int) -> float:
    """P(y = 1 | f, m), the sum over u."""
    u = emergency(share, m)
    return float(u * DISEASE[f, 1] + (1 - u) * DISEASE[f, 0])


def predictions(share: float) -> Tensor:
    return torch.tensor([disease(share, *x) for x in PICTURES], dtype=torch.float64)


@cache
def population() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Picture, disease, group and probability of the 16 kinds of patients of A and B together."""
    kinds = [
        (i, y, u, (POOLED if u else 1 - POOLED) * 0.5 * mark * sick)
        for i, (f, m) in enumerate(PICTURES)
        for u in (0, 1)
        for mark in (float(MARKER[u] if m else 1 - MARKER[u]),)
        for y, sick in ((0, 1 - float(DISEASE[f, u])), (1, float(DISEASE[f, u])))
    ]
    picture, y, u = (torch.tensor(column) for column in list(zip(*kinds, strict=True))[:3])
    return picture, y, u, torch.tensor([kind[3] for kind in kinds], dtype=torch.float64)


def outcomes(head: Tensor) -> HeldOutRows:
    """Loss and success of a head (4,) on each kind of patient."""
    picture, y, _, _ = population()
    p = torch.stack([1 - head, head], dim=1)[picture]
    return HeldOutRows(losses(p.log(), y), (p.argmax(dim=1) == y).to(p))


def mean(values: Tensor, group: int | None = None) -> float:
    """Mean over A and B together, or over one group."""
    _, _, u, weight = population()
    weight = weight if group is None else weight * (u == group)
    return float(weight @ values / weight.sum())


@cache
def game() -> GameOutcome:
    """Regraft's own game from ERM's head on, with one column for each picture."""
    picture, y, u, weight = population()
    belief = torch.nn.functional.one_hot(u).to(weight)
    targets = GroupTargets(belief, weight, y, 2)
    Z = torch.eye(4, dtype=torch.float64)[picture]
    erm = torch.logit(predictions(POOLED))
    learner = Learner(ridge=1e-9, tolerance=1e-9)
    return play(GroupAdversary(Z, targets), learner, torch.stack([-erm / 2, erm / 2]))


def answer(round_: int) -> Tensor:
    head = game().heads[round_]
    return torch.softmax(head, dim=0)[1]


@cache
def certified() -> tuple[Evidence, Evidence]:
    """Evidence from 2,000 patients held out, of whom each kind has its exact share."""
    _, _, u, weight = population()
    counts = 2000 * weight
    assert torch.allclose(counts, counts.round(), atol=1e-9)
    found = outcomes(predictions(0.5))
    times = counts.round().long()
    rows = HeldOutRows(*(v.repeat_interleave(times) for v in (found.loss, found.correct)))
    of = u.repeat_interleave(times)
    groups = [(of == g).to(rows.loss) for g in (0, 1)]
    first, second = (measure("group", w / w.sum(), rows, together=2) for w in groups)
    return first, second


def given() -> Iterator[str]:
    yield "| share of pictures with the marker | {:.2f} | {:.2f} |".format(*MARKER.flip(0))
    for text, row in zip(
        ("there is none, f = 0", "there is a shadow, f = 1"), DISEASE, strict=True
    ):
        yield "| disease if {} | {:.2f} | {:.2f} |".format(text, *row.flip(0))
    a, b = SHARES.values()
    yield f"emergencies are {a:.2f} of the patients of A, and {b:.2f} of those of B"


def seen() -> Iterator[str]:
    a = emergency(SHARES["A"], 1)
    yield f"0.90 · 0.80 / (0.90 · 0.80 + 0.10 · 0.20) = {a:.3f}"
    predicted = disease(SHARES["A"], 1, 1)
    yield f"{a:.3f} · 0.95 + {1 - a:.3f} · 0.40 = {predicted:.3f}"
    for f, m in PICTURES:
        cells = (
            f"{emergency(share, m):.3f} | {disease(share, f, m):.3f}" for share in SHARES.values()
        )
        yield f"| f = {f}, m = {m} | {' | '.join(cells)} |"


def entangled() -> Iterator[str]:
    other = DISEASE.clone()
    other[:, 0] += 0.10
    factor = float((DISEASE[0, 1] - DISEASE[0, 0]) / (other[0, 1] - other[0, 0]))
    (a0, a1), (b0, b1) = DISEASE[:, 0].tolist(), other[:, 0].tolist()
    yield f"has {b0:.2f} and {b1:.2f} instead of {a0:.2f} and {a1:.2f}"
    yield "multiplied by 0.55 / 0.45"
    assert factor == pytest.approx(0.55 / 0.45)
    yield (f"| disease by appointment, f = 0 and f = 1 | {a0:.2f}, {a1:.2f} | {b0:.2f}, {b1:.2f} |")
    yield "| disease in an emergency, f = 0 and f = 1 | 0.60, 0.95 | 0.60, 0.95 |"
    second = {(s, m): 1 - factor * (1 - emergency(SHARES[s], m)) for s in SHARES for m in (0, 1)}
    for m in (0, 1):
        pairs = [(emergency(SHARES[s], m), second[s, m]) for s in SHARES]
        first, changed = (
            ", ".join(f"{p:.3f}" for p in column) for column in zip(*pairs, strict=True)
        )
        yield f"| emergency if m = {m}, in A and in B | {first} | {changed} |"
    for s, share in SHARES.items():  # the same predictions, everywhere
        for f, m in PICTURES:
            p = second[s, m] * other[f, 1] + (1 - second[s, m]) * other[f, 0]
            assert float(p) == pytest.approx(disease(share, f, m), abs=1e-12)
    both = ", ".join(f"{disease(share, 1, 1):.3f}" for share in SHARES.values())
    yield f"| disease if f = 1 and m = 1, in A and in B | {both} | {both} |"
    yield f"| disease if f = 1, in a hospital without emergencies | {a1:.2f} | {b1:.2f} |"
    marked = []
    for s, share in SHARES.items():  # P(m = 1 | u = 1) in the second pair
        mass = {m: share * q + (1 - share) * p for m, p, q in _markers()}
        marked.append(mass[1] * second[s, 1] / sum(mass[m] * second[s, m] for m in (0, 1)))
    yield "marker in {:.1%} of cases in A and in {:.1%} in B".format(*marked).replace("%", " %")


def _markers() -> list[tuple[int, float, float]]:
    p, q = MARKER.tolist()
    return [(0, 1 - p, 1 - q), (1, p, q)]


def transplanted() -> Iterator[str]:
    slope = logit(emergency(0.5, 1)) - logit(emergency(0.5, 0))
    constants = {s: logit(emergency(share, 0)) for s, share in SHARES.items()}
    a, b = constants.values()
    yield f"{slope:.3f} · m + {a:.3f} in A and {slope:.3f} · m − {-b:.3f} in B"
    read = [logit(float(DISEASE[0, u])) for u in (1, 0)]
    rise = [logit(float(DISEASE[1, u])) - at for u, at in zip((1, 0), read, strict=True)]
    assert rise[0] == pytest.approx(rise[1])
    yield (
        f"{rise[0]:.3f} · f + {read[0]:.3f} in an emergency, and {rise[0]:.3f} · f − "
        f"{-read[1]:.3f} by appointment"
    )
    A = [torch.tensor([[0.0], [slope], [c]], dtype=torch.float64) for c in (a, b)]
    D = torch.tensor([rise, [0.0, 0.0], read], dtype=torch.float64)
    bases = transplant_bases(A, D)
    assert bases.dimension == 0
    L = bases.particular
    assert torch.allclose(L.flatten(), torch.tensor([0.0, 1 / slope, 0.0], dtype=torch.float64))
    yield f"L = (0, {1 / slope:.3f}, 0), because {slope:.3f} · {1 / slope:.3f} = 1"
    pictures = torch.tensor([[f, m, 1.0] for f, m in PICTURES], dtype=torch.float64)
    moves = Transplant(L, A[0], A[1])(pictures) - pictures
    step = float(moves[0, 1])
    assert torch.allclose(moves, moves.new_tensor([0.0, step, 0.0]).expand(4, -1))
    yield f"{1 / slope:.3f} · ({a:.3f} + {-b:.3f}): it adds {step:.3f} to m"
    p = sigmoid(slope * step + b)
    assert p == pytest.approx(emergency(SHARES["A"], 0))
    yield f"picture m = 0 has an emergency with probability {p:.3f}"
    yield (
        f"picture m = {step:.3f} has the log-odds {slope:.3f} · {step:.3f} − {-b:.3f} = {a:.3f}, "
        f"hence the same probability {p:.3f}"
    )
    pairs = (A, A[::-1])
    residual = max(directed_hausdorff(Transplant(L, *pair)(pictures), pictures) for pair in pairs)
    yield f"picture with m = {step:.3f} does not exist"
    yield f"the nearest is {residual:.3f} away"


def played() -> Iterator[str]:
    heads = {"ERM": predictions(POOLED), "first answer": answer(0), "second answer": answer(1)}
    assert len(game().rounds) == 3 and game().converged
    assert torch.allclose(answer(0), predictions(0.0), atol=1e-3)
    assert torch.allclose(answer(1), predictions(0.5), atol=1e-3)
    yield f"whose share of emergencies is {POOLED:.2f}"
    risks = {}
    for name, head in heads.items():
        loss = outcomes(head).loss
        risks[name] = mean(loss, 0), mean(loss, 1)
        cells = [*head.tolist(), *risks[name]]
        yield f"| {name} | {' | '.join(f'{cell:.3f}' for cell in cells)} |"
    worst, best, second, value = (
        risks["ERM"][0],
        risks["first answer"][0],
        risks["first answer"][1],
        game().worst_value,
    )
    assert [r.attack_value for r in game().rounds][:2] == pytest.approx([worst, second], abs=1e-3)
    assert risks["second answer"] == pytest.approx([value, value], abs=1e-5)
    # No head has less where it is the true prediction.
    p = predictions(0.5)
    entropy = float(-(p * p.log() + (1 - p) * (1 - p).log()).mean())
    assert entropy == pytest.approx(value, abs=1e-5)
    yield f"appointments alone, {worst:.3f}."
    yield f"the best head for it, {best:.3f} there"
    yield f"emergencies alone, {second:.3f}."
    yield f"larger risk over both is smallest, {value:.3f}."
    yield f"finds nothing above {value:.3f}"
    yield f"Why is {value:.3f} the best possible"
    yield f"a risk of {value:.3f} or more"
    yield f"has {value:.3f} in both groups"
    for name in ("ERM", "second answer"):
        found = outcomes(heads[name])
        everywhere = mean(found.loss), 100 * mean(found.correct)
        worst_group = max(risks[name]), 100 * min(mean(found.correct, u) for u in (0, 1))
        cells = (f"{risk:.3f} nats, {right:.1f} %" for risk, right in (everywhere, worst_group))
        yield f"| {name} | {' | '.join(cells)} |"


def certificate() -> Iterator[str]:
    few, many = certified()
    loss = outcomes(predictions(0.5)).loss
    value, deviation = mean(loss, 0), math.sqrt(mean(loss**2, 0) - mean(loss, 0) ** 2)
    assert [few.rows, many.rows] == pytest.approx([400, 1600])
    yield "Take 2,000 patients that were held out, 1,000 of each hospital"
    yield f"by appointment: {few.rows:.0f} of them"
    yield f"have the mean {value:.3f} and the standard deviation {deviation:.3f}"
    yield "Student's t at 97.5 %"
    yield "together with 95 %"
    quantiles = [(e.risk_bound - e.risk) / deviation * math.sqrt(e.rows - 1) for e in (few, many)]
    yield (f"{value:.3f} + {quantiles[0]:.3f} · {deviation:.3f} / √399 = {few.risk_bound:.3f}")
    yield "emergencies are 1,600"
    yield (f"{value:.3f} + {quantiles[1]:.3f} · {deviation:.3f} / √1,599 = {many.risk_bound:.3f}")
    yield f"a risk of at most {few.risk_bound:.3f} nats (95 % confidence)"
    yield f"at 400 rows and a measured {100 * few.accuracy:.1f} %"
    yield f"at least {100 * few.accuracy_bound:.1f} %"


def hull() -> Iterator[str]:
    a, b = (logit(disease(share, 1, 1)) for share in SHARES.values())
    target = 2 * b - a
    yield f"{a:.3f} in A and {b:.3f} in B"
    yield f"2 · {b:.3f} − {a:.3f} = {target:.3f}, a probability of {sigmoid(target):.3f}"
    up = [sigmoid(target - own) for own in (a, b)]
    yield f"1 / (1 + exp({a:.3f} − {target:.3f})) = {up[0]:.3f}"
    yield f"the rest, {1 - up[0]:.3f}"
    yield f"In B the weights are {up[1]:.3f} and {1 - up[1]:.3f}"
    kept = []
    for share, weight in zip(SHARES.values(), up, strict=True):
        p = disease(share, 1, 1)
        kept.append(p * weight + (1 - p) * (1 - weight))
        assert p * weight / kept[-1] == pytest.approx(sigmoid(target))
    p = disease(SHARES["A"], 1, 1)
    yield (
        f"{p:.3f} · {up[0]:.3f} / ({p:.3f} · {up[0]:.3f} + {1 - p:.3f} · {1 - up[0]:.3f}) = "
        f"{sigmoid(target):.3f}"
    )
    yield f"keeps {kept[0]:.3f} of its weight in A and {kept[1]:.3f} in B"


SECTIONS: list[Callable[[], Iterator[str]]] = [
    given,
    seen,
    entangled,
    transplanted,
    played,
    certificate,
    hull,
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_the_numbers_of_a_section(section: Callable[[], Iterator[str]]) -> None:
    missing = [text for text in section() if text not in PAGE]
    assert missing == []


def test_no_number_is_left_unchecked() -> None:
    """Without the checked phrases, names such as y = 1, numbers of steps, and -1 and 2 remain."""
    rest = PAGE
    checked = [text for section in SECTIONS for text in section()]
    for text in sorted(checked, key=len, reverse=True):
        rest = rest.replace(text, "")
    assert set(re.findall(r"\d[\d.,]*\d|\d", rest)) <= {"0", "1", "2", "3"}
