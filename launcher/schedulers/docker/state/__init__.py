"""What is known of apps, out of their containers, their labels and our records."""
