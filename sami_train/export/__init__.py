"""From a trained agent to a model file that describes itself."""
