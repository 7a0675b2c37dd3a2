//! Adapters: the outside world behind the ports. An adapter sees ports, never the driver.

pub mod model;
