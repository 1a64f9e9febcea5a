"""What tests share: small problems, toy components, checks of pictures."""
