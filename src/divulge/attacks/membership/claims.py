"""What a claim that candidates are members rests on: how many are called, and how many of those may be false."""

from __future__ import annotations

from dataclasses import dataclass

from divulge.contract import Evidence

SURE = 1e-3
"p-value of so many called where none is a member, from which a leak is claimed: one false claim in a thousand audits."
HALF = 0.5
"Of those called that have to be members by the attack's own estimate: a call that is more likely false tells on nobody."


@dataclass(frozen=True)
class MembershipClaim(Evidence):
    """Candidates called members, beside points that can be none."""

    candidates: int
    called: int
    controls: int
    "Points made up that nobody was trained on, asked about in the same way."
    controls_called: int
    p_value: float
    "Of so many called where none is a member."
    false_positive_rate: float
    "Share of non-members called, at most (95 %, Clopper and Pearson), by controls and whoever else is known to be none."
    expected_false_calls: float
    "At most: as if all candidates were non-members."
    precision: float
    "Share of those called that are members, at least."

    @classmethod
    def of(
        cls, candidates: int, called: int, controls: int, controls_called: int, *, p_value: float, false_positive_rate: float
    ) -> MembershipClaim:
        false = false_positive_rate * candidates
        precision = max(0.0, 1 - false / called) if called else 0.0
        return cls(candidates, called, controls, controls_called, p_value, false_positive_rate, false, precision)

    @property
    def holds(self) -> bool:
        return self.p_value < SURE and self.precision >= HALF

    @property
    def words(self) -> str:
        """For readers, and why it does not hold where it does not."""
        false = f"{self.expected_false_calls:.2g}" if self.expected_false_calls < 10 else f"{self.expected_false_calls:,.0f}"
        said = (
            f"Called are {self.called:,} of {self.candidates:,} candidates and {self.controls_called:,} of "
            f"{self.controls:,} made-up points, which are no members. At most {false} calls are false, "
            f"as far as those tell (95 %), so {self.precision:.0%} or more of those called are members; "
            f"p = {self.p_value:.1g}"
        )
        if self.p_value >= SURE:
            return f"{said}. A claim needs p < {SURE:g}."
        return f"{said}." if self.holds else f"{said}. A claim needs {HALF:.0%} of those called to be members."
