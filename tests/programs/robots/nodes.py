"""Two nodes of rclpy in two processes: one publishes, one takes. Prints what each has counted.

nodes.py MESSAGES RATE: so many messages, at so many a second; 0: as fast as it can. With MARKS in
its environment, system calls with numbers say where each message is: see `mark`."""

import os
import sys
import time

messages, rate = int(sys.argv[1]), float(sys.argv[2])
TOPIC = "tracer_test_chatter"
# As many as are published are kept until they are taken.
DEPTH = messages + 10
# Of system calls that mark: no other one has such an offset.
BEFORE, AFTER, TAKEN = 1 << 40, 2 << 40, 3 << 40
MARKED = os.open("/dev/null", os.O_RDONLY) if os.environ.get("MARKS") else None


def mark(offset):
    """Seeks in /dev/null, which does nothing: the kernel sees the call, and its number."""
    if MARKED is not None:
        os.lseek(MARKED, offset, os.SEEK_SET)


def spin_until(executor, is_done, seconds):
    end = time.monotonic() + seconds
    while not is_done() and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.05)
    return is_done()


def listen():
    import rclpy
    from std_msgs.msg import String

    rclpy.init()
    node = rclpy.create_node("listener")
    taken = 0

    def take(message):
        nonlocal taken
        taken += 1
        mark(TAKEN + int(message.data.split()[1]))

    subscription = node.create_subscription(String, TOPIC, take, DEPTH)
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    spin_until(executor, lambda: taken >= messages, 60)
    print(f"taken {taken}", flush=True)
    del subscription
    # Who publishes may wait for the last acknowledgement.
    time.sleep(0.2)
    rclpy.shutdown()


def talk():
    import rclpy
    from std_msgs.msg import String

    rclpy.init()
    node = rclpy.create_node("talker")
    publisher = node.create_publisher(String, TOPIC, DEPTH)
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    if not spin_until(executor, lambda: publisher.get_subscription_count() > 0, 30):
        sys.exit("no subscription was found")
    begin, had = time.monotonic(), time.thread_time()
    for number in range(messages):
        message = String(data=f"message {number}")
        mark(BEFORE + number)
        publisher.publish(message)
        mark(AFTER + number)
        if rate > 0:
            time.sleep(max(0.0, begin + (number + 1) / rate - time.monotonic()))
    took, had = time.monotonic() - begin, time.thread_time() - had
    took, had = (1e6 * seconds / messages for seconds in (took, had))
    print(f"published {messages} in {took:.1f} us each, {had:.1f} us of CPU time", flush=True)
    spin_until(executor, lambda: publisher.get_subscription_count() == 0, 60)
    rclpy.shutdown()


child = os.fork()
if child == 0:
    listen()
else:
    talk()
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
