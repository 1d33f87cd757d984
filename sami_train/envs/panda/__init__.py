"""The paper's modified Panda Pick&Place."""
