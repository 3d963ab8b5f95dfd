"""`python -m summhay_ray.cli`: the command line if `summhay` is not on the path, as in a job. Part of the cli room."""

from summhay_ray.cli import main

if __name__ == "__main__":
    main()
