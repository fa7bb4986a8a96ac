"""All that touches ministack's private names. Nothing else imports them."""
