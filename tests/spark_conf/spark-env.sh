# Java that lives for a minute: of 170 processor seconds in which a cluster started and answered ten queries, the second
# compiler and the parallel collector took 98.
# Nobody doubts the classes of Spark's own files: to verify them takes 1 to 2 of a driver's 16 seconds.
short_lived="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
SPARK_LAUNCHER_OPTS=$short_lived
SPARK_DAEMON_JAVA_OPTS=$short_lived
