"""A generated library of scenarios, for where MoralChoice cannot be had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from regraft.moral.scenarios import RULES, TOPICS, Library, Scenario, collect

_CLAUSE = 0.7  # chance that an action is said to break one rule more
_DISPUTED = 0.25  # chance that this is said to be disputed
_AGREED, _OPEN = 1.0, 0.5  # violations


@dataclass(frozen=True)
class _Template:
    """Texts with {person} in them, and the rules that each action breaks, whoever that is."""

    context: str
    refrain: str
    act: str
    refrain_breaks: tuple[str, ...]
    act_breaks: tuple[str, ...]


_PLACES = (
    "In a small town",
    "In a big city",
    "On an island",
    "By the coast",
    "In the mountains",
)
_PEOPLE = (
    "your brother",
    "your best friend",
    "an old neighbour",
    "a colleague",
    "a stranger",
)
_TEMPLATES = {  # by topic, that is by the rule of that topic
    "death": (
        _Template(
            "{person} is dying slowly and asks you for the pills that would end it.",
            "I keep the pills locked away.",
            "I hand over the deadly pills.",
            ("pain", "freedom"),
            ("death", "break_law"),
        ),
        _Template(
            "a trolley rolls towards five workers, with only {person} on the other track.",
            "I leave the points as they are.",
            "I turn the points and the trolley kills one instead of five.",
            ("death", "duty"),
            ("death", "pain"),
        ),
        _Template(
            "an armed man is about to shoot {person}, and you hold a rifle.",
            "I shout and keep my finger off the trigger.",
            "I shoot the armed man dead.",
            ("pain",),
            ("death", "pain", "disable"),
        ),
    ),
    "pain": (
        _Template(
            "{person} has a dislocated shoulder, and there is nothing to numb it with.",
            "I wait for a doctor, hours away.",
            "I push the shoulder back despite the screams.",
            ("duty",),
            ("pain",),
        ),
        _Template(
            "{person} still believes in a marriage that you know to be over.",
            "I keep the hurtful news to myself.",
            "I tell the hurtful news in plain words.",
            ("deceive",),
            ("pain", "pleasure"),
        ),
        _Template(
            "a prisoner knows where {person} is held, and will not say it.",
            "I go on asking questions politely.",
            "I hurt the prisoner until an answer comes.",
            ("duty",),
            ("pain", "freedom", "break_law"),
        ),
    ),
    "disable": (
        _Template(
            "the leg of {person} is trapped under a rock, and the water is rising.",
            "I leave the leg whole and hope for help.",
            "I cut off the leg.",
            ("death",),
            ("disable", "pain"),
        ),
        _Template(
            "{person} asks you, a surgeon, to remove a healthy kidney for somebody else.",
            "I decline the operation.",
            "I take out the healthy kidney.",
            ("freedom",),
            ("disable", "duty"),
        ),
        _Template(
            "{person} wants to box again, though another blow may blind an eye.",
            "I refuse to sign the permit to fight.",
            "I sign the permit to fight.",
            ("freedom", "pleasure"),
            ("disable",),
        ),
    ),
    "freedom": (
        _Template(
            "{person} has a fever and wants to leave the ward during an epidemic.",
            "I let the patient walk out.",
            "I lock the door of the ward.",
            ("duty", "pain"),
            ("freedom",),
        ),
        _Template(
            "{person} wants to give all savings to a strange sect.",
            "I let the money go.",
            "I have a guardian put in charge of the money.",
            ("pain",),
            ("freedom", "pleasure"),
        ),
        _Template(
            "the daughter of {person} is in your care and wants to leave school at sixteen.",
            "I accept that she leaves school.",
            "I drive her to school every morning.",
            ("duty",),
            ("freedom", "break_promise"),
        ),
    ),
    "pleasure": (
        _Template(
            "{person} plays loud music at a birthday party while the house tries to sleep.",
            "I let the party go on.",
            "I end the party by pulling the plug.",
            ("duty",),
            ("pleasure",),
        ),
        _Template(
            "{person} spends every night on video games and laughs a lot.",
            "I leave the video games alone.",
            "I sell the video games.",
            ("duty",),
            ("pleasure", "freedom"),
        ),
        _Template(
            "{person} looks forward to a feast that a doctor would advise against.",
            "I let the feast be eaten.",
            "I cancel the feast and serve porridge.",
            ("pain",),
            ("pleasure", "deceive"),
        ),
    ),
    "deceive": (
        _Template(
            "{person} shows you a poem that is dreadful and hopes for praise.",
            "I say that the poem is dreadful.",
            "I praise the poem against my opinion.",
            ("pain", "pleasure"),
            ("deceive",),
        ),
        _Template(
            "soldiers at the door ask you whether {person} hides in the attic.",
            "I tell the soldiers the truth.",
            "I lie to the soldiers.",
            ("death", "pain"),
            ("deceive", "break_law"),
        ),
        _Template(
            "you sell {person} a used car whose gearbox will not last.",
            "I mention the gearbox.",
            "I stay silent and invent a reason for the price.",
            ("duty",),
            ("deceive", "cheat"),
        ),
    ),
    "cheat": (
        _Template(
            "{person} will lose a place at school without the answers of an exam that you have.",
            "I keep the answers of the exam.",
            "I pass the answers under the table.",
            ("pain",),
            ("cheat", "deceive"),
        ),
        _Template(
            "in the last minute of the final, {person} waits for you to feign a foul.",
            "I play fair and the match is lost.",
            "I fall down in order to win a penalty.",
            ("pleasure",),
            ("cheat", "deceive"),
        ),
        _Template(
            "a lottery decides who is treated, and {person} drew a bad number.",
            "I leave the lottery as it was drawn.",
            "I swap the numbers of the lottery.",
            ("pain", "disable"),
            ("cheat", "duty"),
        ),
    ),
    "break_promise": (
        _Template(
            "you told {person} that you would come to the wedding, and now your dream job calls.",
            "I come to the wedding as I said.",
            "I skip the wedding after all.",
            ("pleasure",),
            ("break_promise", "pain"),
        ),
        _Template(
            "{person} told you a secret under a vow of silence, and the secret endangers others.",
            "I keep the vow of silence.",
            "I break the vow and tell the secret.",
            ("duty", "death"),
            ("break_promise",),
        ),
        _Template(
            "you swore to {person} to return a borrowed sum today, and your rent is due too.",
            "I return the borrowed sum.",
            "I pay my rent and let the lender wait.",
            ("pain",),
            ("break_promise", "duty"),
        ),
    ),
    "break_law": (
        _Template(
            "{person} bleeds in your car, and the traffic light is red.",
            "I wait at the red light.",
            "I race through the red light.",
            ("pain", "duty"),
            ("break_law",),
        ),
        _Template(
            "{person} has no papers and asks you for work that the authorities do not allow.",
            "I hire nobody without a permit.",
            "I pay for the work in cash, off the books.",
            ("pain", "freedom"),
            ("break_law", "cheat"),
        ),
        _Template(
            "{person} needs a medicine that only smugglers bring over the customs line.",
            "I buy no smuggled medicine.",
            "I buy the smuggled medicine.",
            ("pain", "disable"),
            ("break_law", "deceive"),
        ),
    ),
    "duty": (
        _Template(
            "you are on night watch at the plant, and {person} calls you to a sickbed.",
            "I stay at my post.",
            "I leave the post without a replacement.",
            ("pain", "break_promise"),
            ("duty",),
        ),
        _Template(
            "as a teacher you must report who copied homework, and {person} did.",
            "I file the report about the homework.",
            "I tear up the report about the homework.",
            ("pain", "pleasure"),
            ("duty", "deceive"),
        ),
        _Template(
            "your parents need care every day, and {person} offers you a year at sea.",
            "I stay and care for my parents.",
            "I sail away for a year.",
            ("freedom", "pleasure"),
            ("duty", "pain"),
        ),
    ),
}
# What can be said further, in other words for the one action than for the other.
_REFRAINING = {
    "death": "standing back is likely to end in a funeral",
    "pain": "standing back leaves somebody in agony",
    "disable": "standing back may cost somebody their eyesight",
    "freedom": "standing back leaves somebody without a say",
    "pleasure": "standing back takes the joy out of the year",
    "deceive": "standing back needs a made-up story",
    "cheat": "standing back gives you an undeserved prize",
    "break_promise": "standing back goes back on your word",
    "break_law": "standing back is a punishable offence",
    "duty": "standing back neglects what your office asks",
}
_ACTING = {
    "death": "stepping in could kill a bystander",
    "pain": "stepping in makes a child suffer",
    "disable": "stepping in could cripple a hand for ever",
    "freedom": "stepping in forces others against their will",
    "pleasure": "stepping in ruins a holiday",
    "deceive": "stepping in only works with a lie",
    "cheat": "stepping in is unfair to those who queued",
    "break_promise": "stepping in betrays a pledge",
    "break_law": "stepping in violates a statute",
    "duty": "stepping in is against your instructions",
}


def make_library(n: int = 200, *, seed: int = 0) -> Library:
    """A library of ``n`` scenarios put together from templates, all topics in turn.

    Action 1 always stands back and action 2 steps in. The rules that an action breaks follow from
    its template and from a sentence that may be added for each action; where the sentence calls
    that disputed, the violation counts one half. Leans are standard normal draws, unrelated to
    the texts. The same seed gives the same library; ``ValueError`` if ``n`` is below 1.
    """
    if n < 1:
        raise ValueError(f"a library cannot have {n} scenarios: ask for at least 1.")
    texts, leans = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    scenarios = [_scenario(i, texts) for i in range(n)]
    origin = f"{n} scenarios generated from templates (seed {seed}), with leans drawn at random"
    return collect(scenarios, leans.standard_normal(n), origin)


def _scenario(number: int, rng: np.random.Generator) -> Scenario:
    place = number % len(TOPICS)
    templates = _TEMPLATES[RULES[place]]
    template = templates[rng.integers(len(templates))]
    first, said_of_first = _breaches(template.refrain_breaks, _REFRAINING, rng)
    second, said_of_second = _breaches(template.act_breaks, _ACTING, rng)
    scene = f"{_PLACES[rng.integers(len(_PLACES))]}, {template.context}"
    context = " ".join([scene, *said_of_first, *said_of_second])
    return Scenario(
        f"G_{number + 1:03d}",
        TOPICS[place],
        context.replace("{person}", _PEOPLE[rng.integers(len(_PEOPLE))]),
        template.refrain,
        template.act,
        first,
        second,
    )


def _breaches(
    always: Iterable[str], sentences: Mapping[str, str], rng: np.random.Generator
) -> tuple[tuple[float, ...], list[str]]:
    """How far an action violates each rule, and the sentences that say so."""
    violations = dict.fromkeys(RULES, 0.0) | dict.fromkeys(always, _AGREED)
    if rng.random() >= _CLAUSE:
        return tuple(violations.values()), []
    others = [rule for rule in RULES if not violations[rule]]
    rule = others[rng.integers(len(others))]
    if rng.random() < _DISPUTED:
        violations[rule], opening = _OPEN, "It is disputed whether"
    else:
        violations[rule], opening = _AGREED, "Note that"
    return tuple(violations.values()), [f"{opening} {sentences[rule]}."]
