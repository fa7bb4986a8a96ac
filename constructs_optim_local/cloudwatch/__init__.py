"""CloudWatch alarms, evaluated from datapoints and from the expressions over them."""
