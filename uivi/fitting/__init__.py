"""From what the user gives to a posterior."""
