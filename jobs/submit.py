"""The program as spark-submit takes it: `spark-submit [of Spark's] submit.py enforce [of ours]`."""

from jobs.cli import main

if __name__ == "__main__":
    main()
