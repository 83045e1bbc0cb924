use super::*;

const CAPACITY: usize = 4;

fn places() -> Arc<Places> {
    Arc::new(Places::new(CAPACITY))
}

fn admit(places: &Arc<Places>, address: &str) -> Place {
    places.admit(address.parse().expect("an address"), None)
}

/// Returns the indices of the evicted connections.
fn evicted(places: &[Place]) -> Vec<usize> {
    let evicted = places.iter().enumerate();
    let evicted = evicted.filter(|(_, place)| place.evicted.is_cancelled());
    evicted.map(|(index, _)| index).collect()
}

#[test]
fn the_oldest_of_the_address_that_holds_most_is_evicted() {
    let places = places();
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.1"];
    let taken = addresses.map(|address| admit(&places, address));
    assert_eq!(evicted(&taken), [1]);
    let _one_more = admit(&places, "10.0.0.3");
    assert_eq!(evicted(&taken), [0, 1], "the oldest of both that hold two");
}

#[test]
fn the_new_connection_counts_for_its_address_and_stays() {
    let places = places();
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    let others = addresses.map(|address| admit(&places, address));
    let new = admit(&places, "10.0.0.3");
    assert_eq!(evicted(&others), [2]);
    assert!(!new.evicted.is_cancelled());
}

#[test]
fn of_one_address_those_that_sent_nothing_are_evicted_first() {
    let places = places();
    let taken: Vec<_> = (0..CAPACITY).map(|_| admit(&places, "10.0.0.1")).collect();
    taken[0].advance();
    let _next = admit(&places, "10.0.0.1");
    assert_eq!(evicted(&taken), [1]);
}

#[test]
fn trusted_addresses_keep_their_places_against_any_number_of_others() {
    let places = places();
    admit(&places, "10.0.0.1").trust();
    let trusted = [admit(&places, "10.0.0.1"), admit(&places, "10.0.0.1")];
    let mut others = Vec::new();
    for number in 0..100 {
        others.push(admit(&places, &format!("10.1.0.{number}")));
    }
    assert_eq!(evicted(&trusted), [0; 0]);
    let left = others.iter().filter(|place| !place.evicted.is_cancelled());
    assert_eq!(left.count(), CAPACITY - trusted.len());
    // All remaining connections come from trusted addresses, so one of these is evicted.
    drop(others);
    let more: Vec<_> = (0..CAPACITY).map(|_| admit(&places, "10.0.0.1")).collect();
    assert_eq!((evicted(&trusted), evicted(&more)), (vec![0, 1], vec![]));
    let stranger = admit(&places, "10.0.0.2");
    assert_eq!(evicted(&more), [0]);
    assert!(!stranger.evicted.is_cancelled());
}

/// An API server may open more connections at once than there are places.
#[tokio::test(start_paused = true)]
async fn connections_from_trusted_addresses_have_a_second() {
    let places = places();
    let api_server = Network::of("10.0.0.1".parse().expect("an address"));
    admit(&places, "10.0.0.1").trust();
    let stranger = admit(&places, "10.0.0.2");
    let trusted: Vec<_> = (1..CAPACITY).map(|_| admit(&places, "10.0.0.1")).collect();
    assert_eq!(places.wait(api_server), None, "the stranger is evicted");
    drop(stranger);
    assert_eq!(places.wait(api_server), None, "there is room");
    let last = admit(&places, "10.0.0.1");
    assert_eq!(places.wait(api_server), Some(LEAST));
    let began = Instant::now();
    let room = places.room("10.0.0.1".parse().expect("an address"));
    let release = async {
        tokio::time::sleep(LEAST / 2).await;
        drop(last);
    };
    tokio::join!(room, release);
    assert_eq!(began.elapsed(), LEAST / 2, "a place is released");
    let _again = admit(&places, "10.0.0.1");
    places.room("10.0.0.3".parse().expect("an address")).await;
    assert_eq!(began.elapsed(), LEAST, "the oldest ones have had a second");
    assert_eq!(evicted(&trusted), [0; 0]);
    let _next = admit(&places, "10.0.0.3");
    assert_eq!(evicted(&trusted), [0]);
}

#[tokio::test]
async fn every_address_may_be_that_of_an_api_server_until_one_has_called() {
    let places = places();
    let first = admit(&places, "10.0.0.2");
    assert!(first.may_be_trusted());
    admit(&places, "10.0.0.1").trust();
    assert!(!first.may_be_trusted() && admit(&places, "10.0.0.1").may_be_trusted());
}

#[test]
fn a_place_is_free_once_it_is_dropped_or_trusted() {
    let places = places();
    let first = admit(&places, "10.0.0.1");
    for _ in 0..CAPACITY {
        drop(admit(&places, "10.0.0.1"));
        admit(&places, "10.0.0.1").trust();
    }
    assert!(!first.evicted.is_cancelled());
    assert_eq!(places.state.lock().taken.len(), 1);
    assert_eq!(places.state.lock().trusted.len(), 1);
}

#[test]
fn trusted_addresses_are_forgotten_in_the_order_of_their_last_use() {
    let places = places();
    for number in 0..REMEMBERED {
        admit(&places, &format!("10.0.0.{number}")).trust();
    }
    for address in ["10.0.0.0", "10.0.1.0"] {
        admit(&places, address).trust();
    }
    let trusted = |address: &str| {
        let network = Network::of(address.parse().expect("an address"));
        places.state.lock().trusted.contains(&network)
    };
    assert_eq!(
        ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.1.0"].map(trusted),
        [true, false, true, true]
    );
}

#[test]
fn a_host_with_many_ipv6_addresses_is_one() {
    let network = |address: &str| Network::of(address.parse().expect("an address"));
    assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::9"));
    assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
    assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
}
