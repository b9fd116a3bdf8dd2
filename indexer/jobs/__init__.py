"""The queue: whoever shows the claim token owns the job."""
