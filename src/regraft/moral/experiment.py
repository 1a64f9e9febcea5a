"""Section 5.4 from end to end: records, features, premises, and CRO on an unseen panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.encoders.base import TextEncoder
from regraft.estimators.diagnosing import diagnose
from regraft.moral.examples import Example, choose_examples
from regraft.moral.process import DrawnRecords, action2_shares, draw_records
from regraft.moral.scenarios import Library
from regraft.moral.transfer import Sample, Transfer, measure_transfer
from regraft.moral.values import PANELS, PROFILES, Panel, profile_name
from regraft.premises.abduction_angles import describe_angles
from regraft.premises.diagnose import Diagnosis
from regraft.premises.factorization import choose_penalties, fit_factorization
from regraft.premises.factorization_closure import FactorizationClosure as Closure
from regraft.premises.factorization_closure import check_factorization_closure, unit_folds
from regraft.support.progress import OnProgress, ignore_progress

FEW_RECORDS = 2000  # of each panel, at which the angles are measured again
Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class MoralResult:
    """Everything that ``regraft moral run`` measures."""

    mechanism: str  # what made the labels, plainly
    origin: str  # of the scenarios
    checksum: str  # of what the scenarios say
    encoder: str
    records: int  # of each panel
    seed: int
    examples: tuple[Example, ...]
    action2_shares: dict[str, float]  # expected of each panel
    diagnosis: Diagnosis
    new_scenarios: Closure  # the same closure on scenarios that no map has seen
    median_angles: dict[int, float]  # by records of each panel, in degrees
    transfer: Transfer

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        return {
            "labels": self.mechanism,
            "scenarios": self.origin,
            "scenarios_sha256": self.checksum,
            "encoder": self.encoder,
            "records": self.records,
            "seed": self.seed,
            "examples": [asdict(example) for example in self.examples],
            "action2_shares": self.action2_shares,
            "diagnosis": self.diagnosis.to_dict(),
            "new_scenarios": self.new_scenarios.to_dict(),
            "median_angles": {str(n): angle for n, angle in self.median_angles.items()},
            "transfer": self.transfer.to_dict(),
        }


def run_moral(
    library: Library,
    probabilities: Probabilities,
    mechanism: str,
    encoder: TextEncoder,
    *,
    records: int = 14_000,
    radius: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> tuple[MoralResult, DrawnRecords]:
    """Draw ``records`` of each panel, embed their scenarios, check the premises, and transfer.

    ``probabilities`` (n, 27) are those of action 1, made by ``mechanism``.
    """
    on_progress(f"embedding {len(library.texts)} scenarios with {encoder.name}")
    features = encoder.encode(library.texts).astype(np.float64)
    features = features[:, np.ptp(features, axis=0) > 0]  # n-grams that no scenario has

    def draw(panels: Sequence[Panel], seed: int) -> tuple[Sample, DrawnRecords]:
        drawn = draw_records(library, probabilities, records, seed=seed, panels=panels)
        names = np.array(drawn.names)[drawn.panel]
        return Sample(features[drawn.scenario], drawn.y, names, drawn.profile), drawn

    sample, drawn = draw(PANELS, seed)
    groups = np.array([profile_name(profile) for profile in PROFILES])[sample.profile]
    diagnosis = diagnose(
        sample.X, sample.y, sample.panel, groups, seed=seed, device=device, on_progress=on_progress
    )
    on_progress("predicting scenarios that no map has seen")
    closure = _new_scenarios(sample, drawn.scenario, seed, device)
    angles = {records: diagnosis.angles.median}
    if records > FEW_RECORDS:
        on_progress(f"comparing abductions of {FEW_RECORDS} records a panel")
        few = np.arange(len(sample.y)) % records < FEW_RECORDS  # panels follow each other
        angles[FEW_RECORDS] = _median_angle(sample.take(few), seed, device)
    transfer = measure_transfer(
        lambda panels, seed: draw(panels, seed)[0], radius, seed, device, on_progress
    )
    result = MoralResult(
        mechanism=mechanism,
        origin=library.origin,
        checksum=library.checksum,
        encoder=encoder.name,
        records=records,
        seed=seed,
        examples=choose_examples(library, probabilities, drawn),
        action2_shares=action2_shares(library, probabilities),
        diagnosis=diagnosis,
        new_scenarios=closure,
        median_angles=dict(sorted(angles.items())),
        transfer=transfer,
    )
    return result, drawn


def _new_scenarios(sample: Sample, scenario: NDArray[np.int64], seed: int, device: str) -> Closure:
    """Check the closure with folds of whole scenarios."""
    rows, names = sample.grouped(seed, device)
    unit = torch.from_numpy(scenario).to(device)[rows.order]
    penalties = choose_penalties(rows, unit_folds(rows, unit) == 0)
    return check_factorization_closure(rows, penalties, names=names, unit=unit)


def _median_angle(sample: Sample, seed: int, device: str) -> float:
    """Measure the median principal angle between the panels' abductions, in degrees."""
    rows, names = sample.grouped(seed, device)
    maps = fit_factorization(rows, choose_penalties(rows)).in_features(rows.whitening)
    return describe_angles(maps.abductions, names).median
