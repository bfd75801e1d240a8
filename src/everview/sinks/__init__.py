"""Where views are written outside the store: each step once, in the order of the steps."""
