"""Sources and their readers, the intake of rows, bounds, late and rejected rows, changes of tables."""
