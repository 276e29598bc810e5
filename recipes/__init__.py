"""Reserved for the recipes."""
