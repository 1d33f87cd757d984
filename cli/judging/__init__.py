"""Commands that judge policies: by success or return, behind gaps, against each other, when dynamics change."""
