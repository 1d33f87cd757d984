"""The Panda with coarse physics, in steps of 10 ms instead of 2 ms, for tests that do not depend on its motion."""

import contextlib

import pytest

STEPS, STEP_S = 4, 0.01
"""Number and length of the simulator's steps within an environment step of 40 ms."""


def coarsen(patch):
    """Patch PyBullet to take fewer and longer steps in this process."""
    with contextlib.suppress(ImportError):
        from panda_gym.pybullet import PyBullet

        begin = PyBullet.__init__

        def begin_coarsely(self, *arguments, **options):
            begin(self, *arguments, **(options | {"n_substeps": STEPS}))  # replaces a caller's number too
            self.timestep = STEP_S

        patch.setattr(PyBullet, "__init__", begin_coarsely)


@pytest.fixture(scope="module", autouse=True)
def coarse_physics(request):
    """Use coarse physics in every test module without `FINE_PHYSICS = True`."""
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "FINE_PHYSICS", False):
            coarsen(patch)
        yield
