"""The queues, and the code that they share."""
