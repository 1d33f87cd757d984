"""Commands of the studies, which compare, measure and explain policies."""
