"""What is known of the classical learners: one record each."""
