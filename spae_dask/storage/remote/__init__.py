"""Object stores and web servers: addresses, requests that are made again, and what is said when they fail for good."""
