"""The functions of the routes, one module for each subject. Each function receives the control and the
request."""
