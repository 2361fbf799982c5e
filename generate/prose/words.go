package prose

import "strings"

// The word list. Every word is lower case and regular: verbs take -ed without doubling a consonant, nouns
// take -s, so that inflected forms follow from spelling rules alone (see inflect.go).

var adjectives = strings.Fields(`
able absent abstract active actual adjacent ageless agile aloof amber ample ancient angular annual arctic
arid artful ashen astute austere awake balanced bare basic bitter blank bleak blunt bold brave brief bright
brisk brittle broad broken bronze calm candid careful careless casual cautious central certain charming cheap
cheerful chief chilly circular civic civil clean clear clever close cloudy coarse coastal cobalt cold common
compact complete complex constant copper correct costly covert cozy cracked crimson crisp critical crooked
crowded crucial crude curious current curved daily damp daring dark decent deep defiant delicate dense
detailed digital dim direct distant distinct diverse domestic dormant double doubtful dreary drowsy dry dull
durable dusty eager early earnest eastern easy economic elastic elderly electric elegant eligible empty
endless enormous entire equal essential eternal even evident exact excellent exotic expert explicit external
extra faint fair faithful familiar famous fancy fast federal feeble fertile festive fierce final fine firm
fiscal fixed flat flexible fluid foggy foreign formal fragile frank free frequent fresh friendly frigid frosty
frozen frugal full funny fuzzy general generous gentle genuine giant gifted glad gloomy golden graceful grand
grateful gray greedy green gritty grumpy hairy handy happy hard harmless harsh hasty hazy healthy heavy
helpful hidden hollow honest hopeful hostile huge humble humid hungry icy ideal idle immense inner innocent
instant intact intense internal iron ivory jagged jolly joyful keen kind lasting late latent lavish lazy lean
legal level light likely limited linear liquid literal little lively local lofty logical lonely long loose
loud lovely loyal lucid lucky lunar magnetic main major marble marine massive mature medical mellow mental
merry metallic mild minor mobile modern modest moist monthly moral muddy musical mutual mystic naive narrow
native natural naval nearby neat needless nervous neutral nimble noble noisy normal northern notable novel
numeric oaken obscure obvious odd official open optical oral orange ordinary organic outer oval overt pale
parallel partial passive patient peaceful pearly perfect petty physical pink placid plain playful pleasant
plural polar polished polite poor popular portable positive possible potent precious precise pretty previous
primary prime private profound prompt proper proud prudent public pure purple quaint quick quiet radiant
radical random rapid rare raw ready real recent reckless regional regular relevant reliable remote resolute
rich rigid ripe rough round royal rugged rural rustic rusty sacred safe salty sandy scarce scarlet scenic
secret secure select serene serious severe shady shaky shallow sharp shiny short shy silent silky silver simple
sincere single skilled sleepy slender slick slight slim slow small smart smoky smooth sober social soft solar
sole solemn solid somber sour southern spare sparse special spicy spiral splendid square stable stark static
steady steep stern sticky stiff still stony stormy straight strange strict strong stubborn sturdy subtle sudden
sunny superb supple sure sweet swift symbolic tactful tall tame tart tender tense thick thin thirsty thorny
thorough tidy tight timely tiny tired total tough tranquil tricky tropical true trusty typical unique united
upper upright urban urgent useful usual vacant vague valid valuable vast velvet verbal vibrant violet visible
visual vital vivid vocal warm wary weary weekly weird western wet white whole wide wild willing windy wise
wooden worthy yearly yellow young zealous
`)

var nouns = strings.Fields(`
abbey account acorn actor advance adventure agency agenda agent airport alarm album alley almond amateur anchor
angle animal answer ant antenna apple apron archive arena argument arm army arrow article artist aspect assembly
asset atlas attic auction audience author autumn avenue award axis backyard badge bakery balcony ballad balloon
bamboo banana banker banner barge barley barn barrel barrier basement basin basket battery bay beach beacon bean
bear beast beaver bedroom beetle bell bench berry bicycle bird biscuit blanket blossom board boat bolt bonfire
book border bottle boulder boundary bowl bracelet branch brand breeze brick bridge broker brook broom brother
bucket budget builder bulb bundle bureau burrow bushel butcher butter button cabin cabinet cable cactus cafe cage
cake calendar camel camera campus canal candle cannon canoe canvas canyon captain caravan carbon carpet carriage
carrot cart castle catalog cathedral cattle cavern ceiling cellar cement census ceremony chain chair chamber channel
chapel chapter chart charter checklist cherry chicken chimney choir cinema circle circuit citizen clause clay clerk
cliff climate clinic cloak clock cloth cloud clover club coach coal coast cobbler coconut code coffee coin collar
collector college colony column comet committee compass composer concert concrete condition cone contract convoy
cook cooper coral cord corner corridor cottage cotton council counter county courier course court courtyard cousin
cradle crane crater crayon creek crew cricket critic crop crossing crow crown crystal cupboard curb curtain cushion
custom customer cycle cyclone dairy dam dancer dealer debate decade deck deer defender degree delta dentist deposit
depot desert design desk detail device diagram dialect diamond diary diner dinner diploma dish district doctor
document dolphin donkey door dragon drawer drawing dream dress drill driver drum duck dune eagle earring easel echo
editor elbow elder election element elephant elevator ember embassy emblem emperor engine engineer envelope episode
equation errand essay estate evening event exhibit expert factor factory falcon farm farmer feast feather fence ferry
fiddle field figure filter finger fire fireplace fisherman flag flame flask flavor fleet flock floor flour flower flute
folder footpath force forecast forest forge fork formula fort fortune fossil fountain fox fragment frame freighter
friend frog frontier fruit fuel funnel furnace future gadget gallery galaxy game garage garden garlic garment gate
gazette gear general geyser giant giraffe glacier glass glove goat gospel governor grain grammar granary granite grape
graph grass gravel grove guard guest guide guild guitar gull gutter habit hall hallway hammer hammock handle hangar
harbor harness harp harvest hat hatchet hawk hazel headline heart hearth hedge helmet herald herb herd heritage hermit
hero heron highway hill hinge historian hobby holiday honey hood hook horizon horn horse hospital hostel hotel hour
house hunter hurdle idea igloo image index infant ink inlet inn insect inspector institute instrument interval inventor
invoice island ivy jacket jar jaw jewel jigsaw journal journey judge jug juice jungle junior jury kernel kettle key
keyboard kingdom kitchen kite kitten knot laborer lace ladder lagoon lake lamp landlord lane language lantern laser
lawn lawyer layer leader leaflet league leather lecture ledger legend lemon lens lesson letter lever library license
lighthouse lily limb line linen lion list lizard loaf lobby locket locksmith lodge loft log loom lounge lumber machine
magazine magnet maiden mailbox manager mandate mansion manual manuscript map maple margin market marsh mason mast
match matrix mayor meadow meal measure medal medicine melody melon member memo merchant message metal meteor meter method
midnight mill miner mineral minister mirror mission mitten mixture model module moment monarch monk monument moon moose
morning mosaic moth motor mound mountain mule museum mushroom musician mustard myth napkin nation navigator necklace
needle neighbor nest net network nettle notebook notice novel number nurse nutmeg oak oar oasis oath object ocean octave
office officer olive onion opera orbit orchard orchid order organ orphan otter outcome outpost oven owl owner ox oyster
package paddle page painter palace palm pamphlet panel panther pantry paper parade parcel parent parish park parlor
parrot partner passage passenger pasture patch path patrol pattern pavement payment peach peak pebble pencil pendant
penguin pepper permit petal phrase pianist piano picnic picture pier pigeon pilgrim pillar pillow pilot pine pioneer pipe
pirate pistol planet plank plant plate platform plaza plot plow plumber pocket poem poet policy pond pony poplar porch
port portrait post poster potato potter powder prairie premise present priest prince printer prism prison prize problem
process product profile program project prophet protocol province puddle pulley pump pumpkin pupil puppet purpose puzzle
pyramid quarry quarter queen question quilt quiver quota rabbit raccoon radar radio raft railway rainbow ranch ranger
raven razor reader reason rebel receipt recipe record reef referee region regiment relic remark reporter republic request
reservoir resident resort result review ribbon rider ridge ring river road robin robot rocket roof rooster root rope rose
route routine rudder rug ruin ruler runner saddle sailor salad salmon sample sandal satellite sauce scale scarf scene
scholar school science scooter scout screen script scroll sculptor seal season secretary section sector seed senator
sentence sequence sergeant sermon servant session settler shadow shark shed shelf shell shelter shepherd sheriff shield
shipyard shirt shoe shore shovel shrine shrub shuttle sibling sign signal silo singer sister sketch ski sky sled slogan
slope smith snail socket sofa soldier song source spaniel spark sparrow speaker spear spider spire spoon spring squad
squirrel stable stadium staircase stanza star station statue statute steamer step stew stone storm story stove stranger
strategy stream street string student studio subject suburb subway suitcase summary summer summit sunset supper surface
surgeon swallow swamp sweater swimmer sword symbol symptom syrup system table tablet tailor tale talent tank tannery tape
target tavern teacher team teapot telegram telescope temple tenant tent terminal terrace text theater theme theorem theory
thicket thief thread throne ticket tide tiger timber timetable title toast token tomato tool torch tortoise tourist towel
tower town track tractor trader tradition trail train tram treasure treaty tree trench triangle tribe tributary trophy
trumpet trunk tulip tunnel turbine turnip turtle tutor tyrant umbrella umpire uncle uniform union vacuum valley valve
vampire vehicle vendor venue veranda verdict verse vessel veteran viaduct victim video village vine vineyard violin virtue
visitor voice volcano volume voter voyage vulture wagon waiter wall wallet walnut wardrobe warehouse warrior watchman
waterfall wave weapon weasel weaver wedding whale wharf wheel whistle widow willow window winter wizard word worker workshop
wreath wren yacht yard yarn zebra zone
`)

var verbs = strings.Fields(`
abandon absorb accept accompany acquire adapt address adjust admire adopt advance advise affect alter amaze amend
amuse analyze announce answer anticipate appoint approach approve arrange arrest assemble assess assign assist attach
attack attract avoid await balance banish bless block board boost borrow bother bounce brighten brush bundle calm
capture carry carve catalog celebrate challenge charm chase check cherish claim clarify clean clear climb collect color
combine comfort command compare compile complete compose conceal concern conclude confirm confuse connect conquer consider
construct consult consume contain contest convert convince cook correct count cover crack craft create criticize cross crush
cultivate cure curve damage decide declare decorate defeat defend define delay deliver demand describe deserve design destroy
detect develop direct disclose discover discuss disguise display disturb divide document dominate double doubt drain dress
educate elect embrace employ empty enable encounter encourage endorse endure engage enjoy enlarge ensure entertain escort
establish estimate evaluate examine exceed exchange excite exclude excuse execute exhibit expand expect explain explore export
expose express extend fasten favor fetch filter finance finish flatten float flood fold follow force forge frighten fulfill
furnish gather generate govern grant greet guard guide hammer handle harvest haunt hoist honor house hunt identify ignore
illustrate imagine imitate import impress improve include increase influence inform inherit inspect inspire install instruct
insult interpret interrupt introduce invade invent invest invite isolate join judge justify kick label launch lift limit list
load locate lock maintain manage mark master match measure melt mend mention merge mirror modify monitor mount move multiply
murmur nominate note notice observe obtain occupy offend offer open operate oppose order organize outline overlook paint
pardon pass perform persuade place plant please polish ponder possess postpone pour praise predict prepare present preserve
press prevent print produce promise promote propose protect prove provide publish pull punish purchase pursue push question
raise reach recall receive recognize recommend record recover reduce refine reflect reform refuse regard reject release 
remember remind remove renew rent repair repeat replace report represent rescue resemble reserve resist resolve respect restore
retain return reveal reverse review reward roast rotate ruin sample satisfy scatter search season select separate serve settle
shape share shelter shift signal sketch smooth soften sort spoil stack stain startle steer stretch study suggest summon supply
support surprise surround survey suspect sustain sweeten symbolize taste teach tempt test thank threaten touch trace track trade
train transform translate transport treasure trust turn unfold unite unlock update urge utilize value vary view visit
wander warn watch water weaken weigh welcome witness 
`)

var adverbs = strings.Fields(`
abruptly accurately actively almost already always awkwardly badly barely blindly boldly bravely briefly brightly broadly
calmly carefully casually cautiously certainly cheerfully clearly cleverly closely commonly completely constantly correctly
curiously daily deeply deliberately directly discreetly eagerly early easily elegantly entirely equally eventually exactly
faithfully famously finally firmly formally fortunately freely frequently fully generally gently gladly gracefully gradually
greatly happily hardly hastily heavily honestly humbly immediately independently initially instantly kindly largely lately
later lightly likely loosely loudly mainly mildly modestly mostly mutually mysteriously naturally neatly nervously never
normally noticeably obviously occasionally often openly partly patiently perfectly perhaps plainly politely poorly possibly
precisely presently privately probably promptly properly proudly publicly quickly quietly randomly rapidly rarely readily really
recently regularly reluctantly rightly roughly sadly safely scarcely secretly seldom separately seriously sharply silently
simply sincerely slightly slowly smoothly softly soon steadily still strangely strictly strongly suddenly surely swiftly
tenderly thoroughly tightly together truly typically unexpectedly usually utterly vaguely warmly widely wisely
`)

var names = strings.Fields(`
Aaron Abigail Ada Adele Adrian Agnes Alan Albert Alice Amanda Amelia Amir Andrea Andrew Angela Anita Anna Anthony Arthur
Audrey Barbara Basil Beatrice Benjamin Bernard Bianca Boris Brenda Brian Bruno Camille Carla Carlos Caroline Catherine Cecil
Charles Charlotte Chloe Christine Clara Claude Colin Connor Cora Daniel Daphne David Deborah Dennis Diana Dmitri Donald Dorothy
Douglas Edith Edward Elaine Eleanor Elena Elias Elizabeth Ellen Emil Emily Emma Eric Esther Ethan Eva Evelyn Fatima Felix
Fiona Florence Frances Francis Frank Frederick Gabriel George Gerald Gloria Grace Graham Greta Gustav Hannah Harold Harriet Harry
Hassan Hazel Hector Helen Henry Herbert Hugo Ian Ida Igor Ingrid Irene Iris Isaac Isabel Ivan Jack Jacob James Jane Janet Jasmine
Jason Jean Jennifer Jeremy Jessica Joan John Jonas Joseph Joyce Julia Julian Karen Karl Kate Keith Kenneth Kevin Laura Lena Leo
Leon Leonard Lewis Lila Linda Louis Louise Lucas Lucy Luis Lydia Mabel Marcus Margaret Maria Marie Marion Mark Martha Martin Mary
Matilda Matthew Maurice Maya Michael Miles Miriam Mohammed Monica Nadia Nancy Naomi Natalie Nathan Neil Nicholas Nina Noah Nora
Norman Oliver Olivia Omar Oscar Otto Pamela Patricia Patrick Paul Paula Peter Philip Phoebe Priya Quentin Rachel Ralph Raymond
Rebecca Richard Rita Robert Rosa Rose Ruth Samuel Sandra Sarah Sebastian Simon Sofia Sonia Stanley Stella Stephen Susan Sylvia
Tara Teresa Theodore Thomas Tobias Ursula Valerie Vera Victor Victoria Vincent Violet Virginia Walter Wendy William Winston Yusuf
Zara Zoe
`)

var places = strings.Fields(`
Amsterdam Athens Atlanta Auckland Baltimore Bangkok Barcelona Beirut Belfast Bergen Berlin Bombay Boston Bristol Brooklyn Brussels
Budapest Cairo Calgary Cambridge Canton Chicago Cleveland Cologne Copenhagen Cork Dallas Damascus Delhi Denver Detroit Dover Dresden
Dublin Durham Edinburgh Essex Exeter Florence Frankfurt Geneva Genoa Georgia Glasgow Granada Greenwich Hamburg Hanover Havana Helsinki
Houston Istanbul Jakarta Jerusalem Kingston Krakow Kyoto Lagos Leeds Leipzig Lisbon Liverpool London Lyon Madrid Malta Manchester
Manila Marseille Melbourne Mexico Milan Montreal Moscow Munich Nairobi Naples Norfolk Norway Odessa Ontario Orlando Osaka Oslo Oxford
Palermo Panama Paris Perth Phoenix Plymouth Portland Porto Prague Quebec Richmond Riga Rome Rotterdam Salem Salzburg Santiago Seattle
Seoul Seville Shanghai Sheffield Singapore Sofia Stockholm Sydney Tampa Tehran Texas Tokyo Toledo Toronto Trieste Tunis Turin Utah
Valencia Vancouver Venice Vermont Vienna Virginia Warsaw Wellington Winchester York Zurich
`)

var prepositions = strings.Fields(`
above across after against along among around before behind below beneath beside between beyond despite during inside near outside
over past through throughout toward under underneath until without
`)

var determiners = strings.Fields(`
another any each every her his its my neither no one our some that the their this your
`)

var pluralDeterminers = strings.Fields(`
both certain eight eleven enough few fifty five forty four many most nine ninety other our several seven six sixty some ten the
their these thirty those three twelve twenty two various your
`)

var conjunctions = strings.Fields(`
although and because but once or since so unless until when whereas whether while yet
`)
