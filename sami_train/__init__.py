"""Training of skill-aware policies: environments, agent, losses, evaluation and export.

Importing the package (or its environments) does not import torch: collector processes and robots work without it.
"""
