/* What executors call of `libtracetools`, as its own header declares it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void ros_trace_rcl_init(const void *);
void ros_trace_rcl_node_init(const void *, const void *, const char *, const char *);
void ros_trace_rmw_publisher_init(const void *, const uint8_t *);
void ros_trace_rcl_publisher_init(const void *, const void *, const void *, const char *, size_t);
void ros_trace_rclcpp_publish(const void *, const void *);
void ros_trace_rcl_publish(const void *, const void *);
void ros_trace_rmw_publish(const void *, const void *, int64_t);
void ros_trace_rmw_subscription_init(const void *, const uint8_t *);
void ros_trace_rcl_subscription_init(const void *, const void *, const void *, const char *, size_t);
void ros_trace_rclcpp_subscription_init(const void *, const void *);
void ros_trace_rclcpp_subscription_callback_added(const void *, const void *);
void ros_trace_rmw_take(const void *, const void *, int64_t, bool);
void ros_trace_rcl_take(const void *);
void ros_trace_rclcpp_take(const void *);
void ros_trace_rcl_timer_init(const void *, int64_t);
void ros_trace_rclcpp_timer_callback_added(const void *, const void *);
void ros_trace_rclcpp_timer_link_node(const void *, const void *);
void ros_trace_rclcpp_callback_register(const void *, const char *);
void ros_trace_callback_start(const void *, bool);
void ros_trace_callback_end(const void *);
void ros_trace_rclcpp_executor_get_next_ready(void);
void ros_trace_rclcpp_executor_wait_for_work(int64_t);
void ros_trace_rclcpp_executor_execute(const void *);
bool ros_trace_compile_status(void);
bool ros_trace_enabled_callback_start(void);
