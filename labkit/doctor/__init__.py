"""The doctor: why does a model not learn, and what does an error mean?"""
