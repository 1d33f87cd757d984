"""The adapter checks as a pytest class to inherit, for tests of your own adapter; nothing else here needs pytest.

```python
from my_arm import MyArm
from sami_runtime import Limits
from sami_runtime.testing import AdapterChecks


class TestMyArm(AdapterChecks):
    model = "model.onnx"
    limits = Limits(rest=0.0)

    def make(self, clock):
        return MyArm(clock)
```
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from sami_runtime.adapters.base import Adapter
from sami_runtime.checks.check_adapter import MOVING, RANGE_RULES, RULES, WRITING, Verdict, check_adapter
from sami_runtime.clock import Clock, MonotonicClock
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits


class AdapterChecks:
    """Tests an adapter check by check, as `sami check-adapter` does: it is made once, and then each check is a test.

    Set `model`, define `make`, and name the class Test...: pytest does the rest. A check that cannot be made, because
    nothing is written or the model file has no training ranges, is skipped; one that was not reached fails.
    """

    model: ClassVar[str | Path | Contract]
    """The model that is to drive the adapter: its file, or its contract."""
    limits: ClassVar[Limits] = Limits()
    """What may be written; `write` writes `rest`, the neutral action."""
    ticks: ClassVar[int] = 25
    """Ticks of the policy that are read."""
    write: ClassVar[bool] = True
    """Whether the neutral action is written."""
    excite: ClassVar[bool] = False
    """Whether each element of the action is moved to both sides of the neutral action."""
    probe: ClassVar[bool] = False
    """The former name of `excite`; either moves the robot."""
    _verdicts: ClassVar[dict[str, Verdict] | None] = None

    def make(self, clock: Clock) -> Adapter:
        """Return the adapter; the clock stamps its observations."""
        raise NotImplementedError(f"define make(self, clock) in {type(self).__name__}, which returns your adapter")

    def make_clock(self) -> Clock:
        """Return the loop's clock; override it for a world whose time stands still unless it is stepped."""
        return MonotonicClock()

    @pytest.mark.parametrize("check", [rule.sentence for rule in RULES])
    def test_check(self, check: str) -> None:
        """Make one check."""
        verdict = self._all_verdicts().get(check)
        if verdict is None:
            if reason := self._why_not(check):
                pytest.skip(reason)
            pytest.fail("it was not reached: a check that it builds on failed, see the first failure", pytrace=False)
        if verdict.fault:
            pytest.fail(f"{type(self).__name__}: it is broken that an adapter {check}. {verdict.fault}", pytrace=False)
        if verdict.unproven:
            pytest.fail(f"{type(self).__name__}: not proven that it {check}. {verdict.unproven}", pytrace=False)

    def test_it_is_stopped_however_the_check_ends(self) -> None:
        """Check that nothing else went wrong, such as a stop at the end that failed."""
        sentences = {rule.sentence for rule in RULES}
        assert [verdict for name, verdict in self._all_verdicts().items() if name not in sentences] == []

    def _all_verdicts(self) -> dict[str, Verdict]:
        """Return the verdicts on this class's adapter, which is made once."""
        kind = type(self)
        if "_verdicts" not in vars(kind) or kind._verdicts is None:
            clock = self.make_clock()
            excite = self.excite or self.probe
            verdicts = check_adapter(
                self.make(clock), self._contract(), clock, self.limits, self.ticks, self.write, excite
            )
            kind._verdicts = {verdict.law: verdict for verdict in verdicts}
        assert kind._verdicts is not None
        return kind._verdicts

    def _contract(self) -> Contract:
        return self.model if isinstance(self.model, Contract) else read_artifact(self.model).contract

    def _why_not(self, sentence: str) -> str | None:
        """Return why a check cannot be made, or None if it can."""
        excite = self.excite or self.probe
        (rule,) = (rule for rule in RULES if rule.sentence == sentence)
        if rule in WRITING and not (self.write or excite):
            return "nothing is written: write = False"
        if rule in MOVING and not excite:
            return "nothing is moved: excite = False"
        if rule in RANGE_RULES and self._contract().training_ranges is None:
            return "the model file has no training ranges: sami describe adds them"
        return None


AdapterLaws = AdapterChecks
"""The former name of `AdapterChecks`."""
