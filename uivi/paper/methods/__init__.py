"""The field's methods side by side, on one family and from one start, at equal updates and equal seconds."""
