"""The answers for the page. Each answer has a bounded size. It is made in turns, and does not start the
recording of the history."""
