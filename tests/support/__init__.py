"""What the tests of several folders use. A test imports from its own folder and from here."""
