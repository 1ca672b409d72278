"""What tests share: servers, peers, makers of tables."""
