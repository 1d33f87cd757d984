"""Training of skill-aware policies: environments, agent, losses, evaluation and export.

Importing the package (or its environments) imports no torch: collectors and the runtime's users rely on it.
"""
