"""What tasks hide in an MJCF model: fields of it that they set or scale, by the names of its elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.mjcf.description import Change, ModelField
from sami_train.envs.mjcf.names import Kind, elements, velocities
from sami_train.envs.tasks import Feature, Task


@dataclass(frozen=True)
class _Field:
    kind: Kind
    unit: str
    positive: bool = False
    """Whether it must be more than 0."""


_FIELDS: dict[ModelField, _Field] = {
    "body_mass": _Field("body", "kg", positive=True),
    "dof_damping": _Field("joint", "N m s/rad"),
    "geom_friction": _Field("geom", "1"),
    "actuator_gear": _Field("actuator", "1"),
}


class Dynamics:
    """Changes a compiled model as tasks say.

    A mass carries the inertia of its body with it, as other matter in the same shape would. Of a geom's friction, a
    feature sets the sliding coefficient, and of an actuator's gear the first number; scaling takes all of them.

    Args:
        model: as compiled; its own values are what scales multiply, whatever was set since.
        changes: by feature.

    Raises:
        UnknownName: an element is not in the model.
        SamiError: a body has no mass to change.
    """

    def __init__(self, model: mujoco.MjModel, changes: Mapping[str, Change]) -> None:
        self._model, self._scratch = model, mujoco.MjData(model)
        self._base = {name: getattr(model, name).copy() for name in (*_FIELDS, "body_inertia")}
        self._changes = dict(sorted(changes.items(), key=lambda item: item[1].sets is None))  # scales come after
        self._rows = {name: self._numbers(name, change) for name, change in changes.items()}
        self.features = tuple(self._feature(name, change) for name, change in changes.items())

    def apply(self, task: Task) -> None:
        """Give the model a task's values, and MuJoCo's constants what follows from them; the state stays.

        Args:
            task: a value for each feature, checked.
        """
        fields = {name: values.copy() for name, values in self._base.items()}
        for name, change in self._changes.items():
            values, rows = fields[change.field], self._rows[name]
            if change.scales:
                values[rows] *= task[name]
            elif values.ndim == 2:
                values[rows, 0] = task[name]
            else:
                values[rows] = task[name]
        mass = self._base["body_mass"]
        ratio = np.divide(fields["body_mass"], mass, out=np.ones_like(mass), where=mass > 0.0)
        fields["body_inertia"] *= ratio[:, None]
        for name, values in fields.items():
            getattr(self._model, name)[:] = values
        mujoco.mj_setConst(self._model, self._scratch)

    def _numbers(self, name: str, change: Change) -> np.ndarray:
        """Return the rows of the field that a feature changes."""
        where = f"features.{name}"
        numbers = elements(self._model, _FIELDS[change.field].kind, change.of, where)
        if change.field == "dof_damping":
            return np.concatenate([velocities(self._model, joint) for joint in numbers] or [np.empty(0, np.intp)])
        if change.field == "body_mass":
            if change.of == "all":
                numbers = [body for body in numbers if self._model.body_mass[body] > 0.0]
            if massless := [self._model.body(body).name for body in numbers if not self._model.body_mass[body] > 0.0]:
                raise SamiError(
                    f"{where}: {', '.join(massless)} has no mass in the model, nor an inertia that would go with one. "
                    "Give it a geom with a mass, or name another body."
                )
        return np.array(numbers, np.intp)

    def _feature(self, name: str, change: Change) -> Feature:
        """Return what the task space says of a feature; left out of a task, it is as in the model."""
        field = _FIELDS[change.field]
        if change.scales:
            return Feature(name, "(times the model's own)", 0.0, low_open=field.positive, default=1.0)
        original = self._base[change.field][self._rows[name]]
        values = {float(value) for value in (original[:, 0] if original.ndim == 2 else original)}
        default = values.pop() if len(values) == 1 else None
        return Feature(name, self._unit(name, change), 0.0, low_open=field.positive, default=default)

    def _unit(self, name: str, change: Change) -> str:
        """Return the unit of a field; damping is that of hinges, unless all that it is of are slides."""
        joints = self._model.dof_jntid[self._rows[name]] if change.field == "dof_damping" else []
        slides = [self._model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE for joint in joints]
        return "N s/m" if slides and all(slides) else _FIELDS[change.field].unit
