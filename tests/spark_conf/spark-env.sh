# Java that lives for a minute: of 170 processor seconds in which a cluster started and answered ten queries, the second
# compiler and the parallel collector took 98.
short_lived="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK_LAUNCHER_OPTS=$short_lived
SPARK_DAEMON_JAVA_OPTS=$short_lived
