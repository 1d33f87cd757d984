"""Model files with a probe or a forward model, written from others."""

from sami_runtime.model.artifact import read_artifact
from sami_train.export.model_file import write
from sami_train.studies.lookahead.forward_model import with_lookahead
from sami_train.studies.readout.attach import with_probe


def attach_probe(model, out, readout):
    """Write a model file with a probe, and return its contract."""
    return write(with_probe(read_artifact(model), out, readout))


def attach_lookahead(model, out, steps, forward, origin):
    """Write a model file with a forward model in front of its policy, and return its contract."""
    return write(with_lookahead(read_artifact(model), out, steps, forward, origin))
