//! The loopback topic is what stories take it for, as the SDK sees it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use local::topic::{Mode, Order, Subscriber, Topic};
use serde_json::{Value, json};
use tests::{Container, Function};

const SOON: Duration = Duration::from_secs(10);

/// A subscriber that keeps what it gets and fails the first `failures` times.
fn listener(failures: usize) -> (Subscriber, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    let left = Arc::new(Mutex::new(failures));
    let subscriber: Subscriber = Arc::new(move |event: Value| {
        let (kept, left) = (Arc::clone(&kept), Arc::clone(&left));
        Box::pin(async move {
            let mut left = left.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                return Err("not now".to_owned());
            }
            let message = event["Records"][0]["Sns"]["Message"].as_str().unwrap();
            kept.lock().unwrap().push(message.to_owned());
            Ok(())
        })
    });
    (subscriber, heard)
}

/// A container that publishes with the SDK.
async fn publisher(topic: &Topic) -> Container {
    Container::start(Function::Echo, topic.variables()).await
}

async fn publish(container: &Container, message: &str) -> Result<(), String> {
    let event = json!({ "publish": message });
    let outcome = container.invoke(&event).await;
    outcome.map(drop).map_err(|error| error.error_message)
}

#[tokio::test]
async fn every_subscriber_gets_what_the_sdk_publishes() {
    let ((one, heard_by_one), (two, heard_by_two)) = (listener(0), listener(0));
    let topic = Topic::start(vec![one, two]).await.unwrap();
    let container = publisher(&topic).await;
    let message = r#"{"revision": 7} & + % ü"#;
    publish(&container, message).await.unwrap();
    assert!(topic.settled(SOON).await);
    for heard in [heard_by_one, heard_by_two] {
        assert_eq!(*heard.lock().unwrap(), [message]);
    }
    assert_eq!(topic.published(), [message]);
}

#[tokio::test]
async fn a_message_can_be_lost_doubled_held_and_reordered() {
    let (subscriber, heard) = listener(0);
    let topic = Topic::start(vec![subscriber]).await.unwrap();
    let container = publisher(&topic).await;
    for (mode, message) in [
        (Mode::Drop, "lost"),
        (Mode::Duplicate, "doubled"),
        (Mode::Hold, "first"),
        (Mode::Hold, "second"),
    ] {
        topic.set(mode);
        publish(&container, message).await.unwrap();
    }
    assert!(topic.settled(SOON).await);
    assert_eq!(*heard.lock().unwrap(), ["doubled", "doubled"]);
    topic.release(Order::Reversed);
    assert!(topic.settled(SOON).await);
    let heard = heard.lock().unwrap().split_off(2);
    assert_eq!(heard, ["second", "first"]);
}

#[tokio::test]
async fn a_dead_topic_and_a_silent_one_fail_the_publish() {
    let topic = Topic::start(Vec::new()).await.unwrap();
    let container = publisher(&topic).await;
    topic.set(Mode::Refuse);
    let error = publish(&container, "x").await.unwrap_err();
    assert!(error.contains("this topic is dead"), "{error}");
    topic.set(Mode::Hang);
    let error = publish(&container, "x").await.unwrap_err();
    // The publisher's own deadline, not the container's.
    assert!(!error.contains("Task timed out"), "{error}");
    assert!(topic.published().is_empty());
}

#[tokio::test]
async fn a_subscriber_that_fails_is_asked_again_and_given_up_at_last() {
    let (subscriber, heard) = listener(5);
    let topic = Topic::start(vec![subscriber]).await.unwrap();
    let container = publisher(&topic).await;
    publish(&container, "first").await.unwrap();
    assert!(topic.settled(SOON).await);
    assert_eq!(topic.failures(), ["not now"]);
    publish(&container, "second").await.unwrap();
    assert!(topic.settled(SOON).await);
    assert_eq!(*heard.lock().unwrap(), ["second"]);
    assert_eq!(topic.failures().len(), 1);
}
