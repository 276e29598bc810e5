"""What users get is built, and tried."""
