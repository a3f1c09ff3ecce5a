"""The cardinal job: assembles Cardinal Streams into tables; one version for all of them."""
