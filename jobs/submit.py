"""The program as spark-submit takes it: `spark-submit [of Spark's] submit.py enforce [of ours]`."""

from jobs.__main__ import main

if __name__ == "__main__":
    main()
