"""What this kernel can do and is doing now; changes nothing but, when asked, detaches."""
