"""Training a biLM: corpora -> streams -> step -> models. START READING in loop.py.

config.py, config_file.py    settings, and the files they are read from
start.py, memory.py          what a run starts from, and the memory it takes
loop.py, step.py             the loop, and one step
optimizers.py, schedules.py  by registered name
checkpoint.py, identity.py   what a run resumes from
results.py, perplexity.py    the models it leaves, and how they are measured
"""
