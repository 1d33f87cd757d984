"""The paper's modified MuJoCo benchmark (appendix C.2): ten environments, single or as batches."""
