"""What a query means, slow and plain: the oracle of the tests. Nothing that runs imports it."""
