"""A plugin that needs what is not installed."""

import a_driver_that_nobody_has  # noqa: F401
