"""What a run starts from, as its configuration says it."""

from __future__ import annotations

from sami_train.settings import Natural, NotNegative, Settings


class InitConfig(Settings):
    """What a run starts from, if not from nothing; see `fine_tuning`."""

    source: str = ""
    """A run, a checkpoint, a file of weights or a model, as `--init` names it; empty starts from nothing."""
    sha256: str = ""
    """Of the file that is meant."""
    critic_updates: Natural = 0
    """First updates that train the critics alone: where these begin anew, they would teach the actor nonsense."""
    keep_encoder: bool = False
    """Leave the encoder as it was for the whole run: contexts mean what they meant. There is no contrastive loss."""
    anchor: NotNegative = 0.0
    """What the actor pays for the squared distance between its action and the one it would have taken at first: without
    it an actor is soon no better than what its critics have learned in the meantime."""
    keep_statistics: bool = True
    """Leave the statistics that normalise observations as they were: moving them changes what a trained policy does."""

    @property
    def keeps_statistics(self) -> bool:
        """Whether observations change no statistics."""
        return bool(self.source) and self.keep_statistics
