"""The functions of the routes, a module for each subject. Each gets the control and the request."""
