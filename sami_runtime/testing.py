"""Laws of adapters as a pytest class to inherit, for whoever writes one; nothing else here needs pytest.

```python
from my_arm import MyArm
from sami_runtime import Limits
from sami_runtime.testing import AdapterLaws


class TestMyArm(AdapterLaws):
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
from sami_runtime.checks.check_adapter import LAWS, MOVING, RANGE_LAWS, WRITING, Verdict, check_adapter
from sami_runtime.clock import Clock, MonotonicClock
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits


class AdapterLaws:
    """Tests an adapter law by law, as `sami check-adapter` does: the adapter is made once, and then each law is a test.

    Set `model`, define `make`, and name the class Test...: pytest does the rest. A law that cannot be judged, because
    nothing is written or the model file does not tell, is skipped; one that was not reached fails.
    """

    model: ClassVar[str | Path | Contract]
    """The model that is to drive the adapter: its file, or its contract."""
    limits: ClassVar[Limits] = Limits()
    """What may be written; `rest` is what `write` writes."""
    ticks: ClassVar[int] = 25
    """Ticks of the policy that are read."""
    write: ClassVar[bool] = True
    """Whether rest is written."""
    excite: ClassVar[bool] = False
    """Whether each element of the action is moved to both sides of rest."""
    probe: ClassVar[bool] = False
    """The former name of `excite`; either moves the robot."""
    _verdicts: ClassVar[dict[str, Verdict] | None] = None

    def make(self, clock: Clock) -> Adapter:
        """Return the adapter; the clock stamps its observations."""
        raise NotImplementedError(f"define make(self, clock) in {type(self).__name__}, which returns your adapter")

    def make_clock(self) -> Clock:
        """Return the loop's clock; override it for a world whose time stands still unless it is stepped."""
        return MonotonicClock()

    @pytest.mark.parametrize("law", [law.sentence for law in LAWS])
    def test_law(self, law: str) -> None:
        """Check one law."""
        verdict = self._judged().get(law)
        if verdict is None:
            if reason := self._why_not(law):
                pytest.skip(reason)
            pytest.fail(
                "it was not reached: a law that it builds on is broken, see the first that failed", pytrace=False
            )
        if verdict.fault:
            pytest.fail(f"{type(self).__name__}: it is broken that an adapter {law}. {verdict.fault}", pytrace=False)
        if verdict.unproven:
            pytest.fail(f"{type(self).__name__}: not proven that it {law}. {verdict.unproven}", pytrace=False)

    def test_it_is_stopped_however_the_check_ends(self) -> None:
        """Check that nothing else went wrong, such as a stop at the end that failed."""
        sentences = {law.sentence for law in LAWS}
        assert [verdict for name, verdict in self._judged().items() if name not in sentences] == []

    def _judged(self) -> dict[str, Verdict]:
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
        """Return why nobody can judge a law, or None where somebody could."""
        excite = self.excite or self.probe
        (law,) = (law for law in LAWS if law.sentence == sentence)
        if law in WRITING and not (self.write or excite):
            return "nothing is written: write = False"
        if law in MOVING and not excite:
            return "nothing is moved: excite = False"
        if law in RANGE_LAWS and self._contract().training_ranges is None:
            return "the model file does not tell what training saw: sami describe adds it"
        return None
