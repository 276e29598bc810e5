"""What each route does, by what it is about. A function gets the server's control, and the request."""
