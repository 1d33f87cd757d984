"""The Panda with coarse physics: steps of 10 ms instead of 2 ms, for laws that say nothing about how it moves."""

import contextlib

import pytest

STEPS, STEP_S = 4, 0.01
"""Of the simulator within one step of the environment, which lasts 40 ms as ever."""


def coarsen(patch):
    """Have PyBullet take fewer and longer steps from now on, in this process."""
    with contextlib.suppress(ImportError):
        from panda_gym.pybullet import PyBullet

        begin = PyBullet.__init__

        def begin_coarsely(self, *arguments, **options):
            begin(self, *arguments, **(options | {"n_substeps": STEPS}))  # also where physics are coarse already
            self.timestep = STEP_S

        patch.setattr(PyBullet, "__init__", begin_coarsely)


@pytest.fixture(scope="module", autouse=True)
def coarse_physics(request):
    """Coarse physics in every file that does not say `FINE_PHYSICS = True`."""
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "FINE_PHYSICS", False):
            coarsen(patch)
        yield
