"""What contexts tell: collected, fitted as an atlas, and put to the test by dynamics that change."""
